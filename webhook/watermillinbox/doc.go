// Package watermillinbox keeps webhook events in a store and has them worked off
// through a broker, for shops that run NATS JetStream, RabbitMQ, Kafka or Redis
// Streams: any publisher and subscriber of Watermill
// (github.com/ThreeDotsLabs/watermill). It is proven on NATS JetStream, RabbitMQ and Redis
// Streams.
//
//	store, err := natskv.Open(ctx, js, natskv.Config{Replicas: 3})
//	inbox, err := watermillinbox.New(ctx, watermillinbox.Config{
//		Work:       webhook.Work{Handle: router.Dispatch, Order: webhook.ByObject},
//		Seal:       ring, // a seal.KeyRing, or a Tink keyset
//		Store:      store,
//		Publisher:  publisher,
//		Subscriber: subscriber,
//	})
//	…
//	handler, err := webhook.NewHandler(webhook.Config{Inbox: inbox, …})
//
// # Why a store
//
// A broker forgets: it recognises a message that is repeated for minutes and not for
// 30 days, it cannot list, replay or discard what failed, it keeps no order once
// something is tried again, and what stands in a queue can be read by everybody who
// may look at queues. So the events are in a [Store], sealed, and what goes through
// the broker is a wake-up: the key of a place in the store. Lost messages are found
// by a sweep, repeated ones are worth a look and nothing more.
//
//	Accept ─► store: place, event ─► broker: key of the place ─► answer
//	broker ─► any process ─► lease of the line ─► webhook.Worker ─► outcome ─► store
//
// Package natskv is a store in NATS itself, and sqlkv one in PostgreSQL, MySQL,
// MariaDB or SQLite. Package kvtest holds others to the contract.
//
// # What it promises
//
// Every promise of [webhook.Engine] is kept by the store; the broker decides how
// soon, and who. Any number of processes share the work. The events that a process
// was handling when it died are handled by another one after [Config.Lease].
//
//	                            NATS + natskv        broker + sqlkv       broker + SQLite
//	nothing lost by kill -9     yes                  yes                  yes
//	nothing lost by power       sync_interval:       yes, as the          yes
//	                            always, see below    database commits
//	duplicates for 31 days      yes                  yes                  yes
//	retries, dead letters       yes                  yes                  yes
//	several processes           yes                  yes                  on one machine
//	order, oldest first         yes; of a cluster    yes                  yes
//	                            see below
//	stale guard                 yes                  yes                  yes
//	patients in queues, rows    none                 none                 none
//
//	                            JetStream            RabbitMQ             Redis Streams        Kafka, others
//	message lost by the broker  found by the sweep, after Config.Sweep, twice at worst
//	message repeated            one read             one read             one read             one read
//	held by a busy process      back after 1 s       back after 1 s       after MaxIdleTime    found by the sweep
//	broker down                 accepted, and handled by the process that accepted it
//	tested here                 yes                  yes                  yes                  no
//
// Weaker than an inbox in one database:
//
//   - NATS by default acknowledges before anything is on a disk (nats-server issue
//     7564): a machine that loses its power loses what was acknowledged in the last
//     two minutes, unless other replicas have it. Set sync_interval: always, and
//     three replicas. See package natskv.
//   - What a replica of a NATS cluster reads may be a moment old. An older event that
//     was accepted in that moment is then handled after a newer one, which
//     [webhook.Work.Stale] reports, and one whose message was lost waits for the next
//     sweep.
//   - Place and event are two writes in NATS. An accept that ends in between leaves a
//     place that holds up its line until the platform sends the event again, two
//     minutes at most.
//   - One at a time means: as long as a process is not stopped for longer than
//     [Config.Lease] and then goes on, handling what another one has taken over. Its
//     outcome is refused.
//   - Handling cannot be part of a transaction of the program, as with the inboxes of
//     packages sqlinbox and riverinbox.
//
// # Brokers
//
// The topic needs one queue, or consumer group, that all processes share. Give no
// message more attention than that: no dead letter queue, no delays, no limit of
// deliveries; the inbox has its own. Messages have names of their own, so that
// recognition of duplicates in the broker does no harm.
//
// NATS JetStream, with package nats of watermill-nats: make the stream with
// WorkQueuePolicy, and a durable consumer with a deliver group for all replicas,
// because one that Watermill makes ends with its subscriber. Set DurablePrefix and
// QueueGroupPrefix to the consumer's name, nats.ManualAck, and SubscribersCount to as
// many as there are workers. After the inbox close the connection, and not
// Watermill's subscriber, whose Close can panic while messages come in. See the
// example.
//
// RabbitMQ, with watermill-amqp: NewDurableQueueConfig makes a durable queue with
// persistent messages; set Publish.ConfirmDelivery, so that the broker has them, and
// Publish.ChannelPoolSize, without which each message opens a channel. A subscription
// of it hands out one message at a time: [Config.Subscriptions] says how many there
// are.
//
// Redis Streams, with watermill-redisstream: one ConsumerGroup, and no Consumer, so that
// each process is another one. A message that a busy process gives back comes to it
// again, until it is older than MaxIdleTime: make that a few seconds, and set
// NackResendSleep. Set DefaultMaxlen, as the stream keeps what was acknowledged: what it
// drops is found by a sweep. Set DisableIndefiniteInitialBlock, without which the
// subscriber's goroutines outlive it, and give publisher and subscriber a client each,
// because each closes its own.
//
// Kafka: a partition is handed out message by message; [Config.Subscriptions] beyond
// the number of partitions are of no use, and a busy process holds up its partitions.
//
// Watermill's gochannel brings messages to its own process only. It is for a laptop,
// where the sweeps do what it cannot.
//
// # Cost
//
// An accept is one statement and one message with sqlkv, two writes and a message with
// natskv; with order also a read, beside the message. Handling is five requests to the
// store, with order nine. natskv lists a line with a filter, for which servers before
// NATS 2.10 look at every event that waits: some 2 ms for each thousand of them.
package watermillinbox
