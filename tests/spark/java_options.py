"""How a driver that does not live long runs Java: the second compiler never pays for itself."""

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
