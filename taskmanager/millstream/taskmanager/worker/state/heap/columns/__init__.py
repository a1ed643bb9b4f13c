"""Tables of columns on the heap: dense slots from the kernels' index, columns as growing buffers."""
