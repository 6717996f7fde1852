// Package publish hands verified webhooks to a message broker, and handles them on its
// other side. It is for programs whose events live on NATS JetStream, RabbitMQ, Kafka or
// Redis Streams, or on another broker that Watermill
// (github.com/ThreeDotsLabs/watermill) has a driver for:
//
//	request ─► webhook.Handler ─► Inbox ─► broker ─► Consume ─► webhook.Router ─► your function
//	           verifies           seals    keeps     opens      decodes
//	           answers            publishes          retries, gives up
//
// An [Inbox] answers once the broker has confirmed that it stored the event. It is a
// [webhook.Inbox] and no engine: how long events are kept, when they are delivered
// again, and in which order, is up to the broker. Where that is too little, and an
// inbox in a database will do, use package sqlinbox or riverinbox.
//
// # Setting up
//
//	inbox, err := publish.New(publish.Config{Publisher: publisher, Topic: "dispensary", Seal: keys})
//	…
//	handler, err := webhook.NewHandler(webhook.HandlerConfig{Inbox: inbox, …})
//
// and, in the same program or in another one:
//
//	router, err := message.NewRouter(message.RouterConfig{}, logger)
//	…
//	consumer, err := publish.Consume(router, publish.ConsumerConfig{
//		Subscriber:      subscriber,
//		Topic:           "dispensary",
//		DeadLetters:     publisher,
//		DeadLetterTopic: "dispensary_dead",
//		Seal:            keys,
//		Work:            webhook.Work{Handle: handlers.Dispatch},
//	})
//	…
//	err = router.Run(ctx)
//
// Publisher, subscriber and router are Watermill's. The program examples/nats is
// complete.
//
// # What goes through the broker
//
// The payload of a message is the body, encrypted and bound to the [webhook.Key]. The
// metadata contains key, type, clinic and times of the event, and the ordering key,
// which is a digest. It contains no patient data.
//
// # What each broker promises
//
// Every event that was acknowledged to the platform reaches a handler at least once, if
// publisher and subscriber are set up like this. More than once is possible with each
// of them: after a crash, a lost connection, or an acknowledgement that took too long.
//
//	                      NATS JetStream             RabbitMQ                   Kafka                      Redis Streams
//	PROMISES
//	a confirmed event is  stored by the stream's     stored by the durable      stored by the in-sync      in the stream; on disk as
//	                      replicas                   queue, with                replicas, with             appendfsync says
//	                                                 Publish.ConfirmDelivery    RequiredAcks WaitForAll
//	                                                 (off by default)           (not the driver's
//	                                                                            default)
//	it is delivered       again after AckWait        again when the consumer's  again when the consumer's  again after MaxIdleTime
//	until acknowledged                               connection ends, or after  session ends, not while    (a minute by default)
//	                                                 consumer_timeout           it lives
//	a repeated publish    dropped for 2 minutes      delivered                  delivered                  delivered
//	is                    (Duplicates), with
//	                      TrackMsgId
//	order is kept         with MaxAckPending 1       with a single active       within a partition:        with one consumer in all
//	                                                 consumer and prefetch 1    partition by OrderingKey
//	DOES NOT PROMISE
//	a confirmed event is  if power fails before it   if there is no queue:      if replicas lag:           by a failover:
//	lost                  is on disk, unless         declare queues and         min.insync.replicas 2      replication is not waited
//	                      sync_interval is always    bindings before you                                   for
//	                                                 publish
//	an event is gone      after MaxAge, or beyond    after a TTL, or beyond a   after the retention,       once trimmed by MaxLen or
//	                      the limits of the stream   length limit               handled or not             XTRIM, handled or not; it
//	                                                                                                       is kept until then
//	YOU
//	provide               stream and durable         durable queues, for both   topics whose retention is  memory, and trimming by
//	                      consumer, for both topics  topics                     longer than any outage     age
//	your handler must     repeats, and disorder of   repeats, and disorder of   repeats of the last        repeats, disorder; have a
//	bear                  what is delivered again    what is delivered again    second of a partition,     reconcile.Clinics run for
//	                                                                            and one slow event         what a failover lost
//	                                                                            holding up its partition
//
// A broker must wait for an acknowledgement for longer than [MaxHandling] says, or it
// has another consumer handle the event at the same time: set AckWait, the driver's
// AckWaitTimeout, consumer_timeout or MaxIdleTime to that.
//
// Leave Publish.ChannelPoolSize of the RabbitMQ driver at 0. Its pool (v3.0.2) never gets
// back a channel that it could not open again, so that after a lost connection a publisher
// can wait for a channel without end, and every webhook is refused.
//
// # Retries and dead letters
//
// A failed event is retried while the broker waits, as Work.Retry defines: five times
// within some seconds, not over hours. Then, or at once if the error is
// [webhook.Permanent], the consumer publishes the message to the dead letter topic and
// acknowledges it. The dead letter has an ID of its own, so that both topics can be in one
// JetStream stream. To handle the event again, publish the copy that [Replay] returns to
// the topic.
//
// If the dead letter cannot be published, the message returns to the broker. The consumer
// waits before that, longer after each failure, up to Work.Retry.MaxBackOff. When the
// message comes again, it publishes the dead letter again without calling the handler.
//
// While the consumer stops, events that are not handled return to the broker.
//
// # Watching
//
// A subscription can close by itself, for example if the broker deletes its consumer.
// Watermill does not subscribe again. The consumer then logs an error, and [Consumer.Err], which
// fits a health check, returns it. [Consumer.Stats] returns the number of open subscriptions, and of messages whose
// dead letter could not be published.
//
// # Duplicates
//
// The platform sends an event again if it did not see the response, and brokers deliver
// again. An Inbox keeps no keys, so your handlers drop repeats: store the key of
// [webhook.HandlingFrom], which is also [MetadataKey], in the transaction of the effect.
// JetStream drops repeats for 2 minutes by the ID of the message, with TrackMsgId.
//
// Do not use Watermill's Deduplicator middleware. It notes a key before the handler runs, so
// it drops an event whose handling was broken off.
//
// # Reconciliation
//
// An Inbox is a [reconcile.Inbox]. Each run publishes again all events that it lists. After a
// start these are those of [reconcile.Config].FirstRun, 30 days by default, and then those
// since an hour before the newest event of the last run (Overlap). The checkpoint is in
// memory, so each replica runs for itself: run it in one of them. [reconcile.Report].Unchecked
// is the number of these events.
package publish
