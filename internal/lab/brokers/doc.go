// Package brokers contains only tests. They test package webhook/publish on NATS JetStream,
// RabbitMQ, Kafka and Redis Streams. They are in a separate module, so that programs do not depend
// on all brokers and drivers.
//
// NATS, Kafka and Redis run inside the tests. The tests also use the servers in the environment
// variables DISPENSARY_TEST_NATS, DISPENSARY_TEST_RABBITMQ and DISPENSARY_TEST_REDIS.
package brokers
