"""The store on ZooKeeper, by kazoo: the extra `zookeeper`. Only who configures it imports what is in here."""
