// Package brokers holds tests only: those of package webhook/publish on NATS JetStream,
// RabbitMQ, Kafka and Redis Streams. It is a separate module, so that programs that
// publish to one of them do not depend on all brokers and drivers.
//
// NATS, Kafka and Redis run inside the tests; the servers that DISPENSARY_TEST_NATS,
// DISPENSARY_TEST_RABBITMQ and DISPENSARY_TEST_REDIS name are used besides.
package brokers
