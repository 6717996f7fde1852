// Package brokers holds tests only: those of package webhook/publish on NATS JetStream,
// RabbitMQ, Kafka and Redis Streams. It is a module of its own, so that the brokers and
// their drivers are dependencies of nobody who publishes to one of them.
//
// NATS, Kafka and Redis run inside the tests; the servers that DISPENSARY_TEST_NATS,
// DISPENSARY_TEST_RABBITMQ and DISPENSARY_TEST_REDIS name are used besides.
package brokers
