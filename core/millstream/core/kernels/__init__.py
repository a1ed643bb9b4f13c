"""Kernels: loops over arrays that Python would be too slow for, in C where its library was built, else in NumPy.

`contract.py` defines what they do, `loading.py` chooses the implementation of a process: `kernels()`.
"""
