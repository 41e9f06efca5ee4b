"""Which partition a key belongs to: murmur2, as the Java client does it.

librdkafka's default is another one (CRC32): such a publisher needs ``partitioner=murmur2_random``, or one run is split
over two partitions.
"""

from __future__ import annotations

__all__ = ["murmur2", "partition_of"]

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of the Java client (seed 0x9747b28c), unsigned."""
    h = (0x9747B28C ^ len(data)) & _MASK
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key.

    Args:
        key: Message key.
        partitions: Number of partitions, 1 or more.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
