//! Tells the owners of clusters what became of their objects: status write-back.
