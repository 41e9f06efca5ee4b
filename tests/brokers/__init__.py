"""The brokers that the tests run on."""
