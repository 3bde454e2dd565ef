"""Streams: the companion that carries decisions, sources with gates inside, Kafka, replay."""
