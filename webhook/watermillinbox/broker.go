package watermillinbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// maxRinging bounds the messages that are on their way to the broker. Some
	// publishers wait for ever after a connection broke.
	maxRinging = 256

	// ringPatience is how long an accept waits for the broker: the event is in
	// the store already.
	ringPatience = 250 * time.Millisecond

	// busyPatience is how long a message waits for a worker of this process to
	// be free. Then it goes back: another process may have one.
	busyPatience = time.Second

	// storePatience is how long a worker rests when the store does not answer.
	storePatience = time.Second

	// handBackPause is how long a message may take to be on its way back.
	handBackPause = 20 * time.Millisecond
)

// announce has a place looked at: by whoever is at its line already, and by whoever
// hears of it from the broker.
func (i *Inbox) announce(ctx context.Context, place string) {
	var touching sync.WaitGroup
	if line := lineIn(place); !alone(line) {
		touching.Go(func() {
			if err := i.touch(ctx, line); err != nil {
				i.trouble("cannot tell who is at a line", err)
			}
		})
	}
	i.ring(ctx, place)
	touching.Wait()
}

// ring tells all processes through the broker that a place, or a line, has something
// to be handled. If the broker does not take the message, this process sees to it.
func (i *Inbox) ring(ctx context.Context, place string) {
	line := lineIn(place)
	select {
	case i.ringing <- struct{}{}:
	default:
		i.queue.add(line)
		return
	}
	rung := make(chan error, 1)
	go func() {
		defer func() { <-i.ringing }()
		rung <- i.publish(place)
	}()
	late := time.NewTimer(ringPatience)
	defer late.Stop()
	select {
	case err := <-rung:
		if err != nil {
			i.trouble("cannot publish", err)
			i.queue.add(line)
		}
	case <-late.C:
		i.queue.add(line)
	case <-ctx.Done():
		i.queue.add(line)
	}
}

// publish gives the broker a message. A publisher that panics, which happens
// when connections break, has failed.
func (i *Inbox) publish(place string) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("%w of the publisher, with a value of type %T", webhook.ErrPanic, caught)
		}
	}()
	// A name of its own for each message: brokers that recognise repeated ones
	// would swallow the second event of a line.
	return i.config.Publisher.Publish(i.config.Topic, message.NewMessage(watermill.NewUUID(), []byte(place)))
}

// subscribe begins to receive. The subscriptions outlast the inbox, and end with
// the subscriber: some of Watermill's panic when the context of one ends while
// messages come in.
func (i *Inbox) subscribe() error {
	for range i.config.Subscriptions {
		incoming, err := i.config.Subscriber.Subscribe(context.Background(), i.config.Topic)
		if err != nil {
			return fmt.Errorf("watermillinbox: subscribing: %w", err)
		}
		i.loops.Go(func() { i.receive(incoming) })
	}
	return nil
}

// receive hands messages over to the workers, and subscribes anew when the
// subscriber has given up.
func (i *Inbox) receive(incoming <-chan *message.Message) {
	for {
		i.pump(incoming)
		for incoming = nil; incoming == nil; {
			select {
			case <-i.running.Done():
				return
			case <-time.After(time.Second):
			}
			var err error
			if incoming, err = i.config.Subscriber.Subscribe(context.Background(), i.config.Topic); err != nil {
				i.trouble("cannot subscribe", err)
			}
		}
	}
}

// pump hands messages over until there are no more, or the inbox stops. While all
// workers are busy it does not wait as long for each message as for the first.
func (i *Inbox) pump(incoming <-chan *message.Message) {
	for patience := busyPatience; ; {
		select {
		case m, open := <-incoming:
			if !open {
				return
			}
			select {
			case i.messages <- m:
				patience = busyPatience
			case <-time.After(patience):
				patience = busyPatience / 10
				m.Nack()
			case <-i.running.Done():
				m.Nack()
			}
		case <-i.running.Done():
			handBack(incoming)
			return
		}
	}
}

// handBack gives the broker what this process has in hand, so that others need not
// wait for it: until nothing comes for a moment, as some of it may come again. What
// comes later is taken and not acknowledged, because a message that nobody takes
// keeps some subscribers from closing.
func handBack(incoming <-chan *message.Message) {
	for over := time.After(10 * handBackPause); ; {
		select {
		case m, open := <-incoming:
			if !open {
				return
			}
			m.Nack()
			continue
		case <-time.After(handBackPause):
		case <-over:
		}
		go func() {
			for range incoming {
			}
		}()
		return
	}
}

// work is the life of a worker.
func (i *Inbox) work() {
	for !i.stopped() {
		select {
		case <-i.running.Done():
		case m := <-i.messages:
			i.answer(m)
		case <-i.queue.ready:
			if line, ok := i.queue.next(); ok {
				i.attend(line, "", func() {})
			}
		}
	}
}

var errNotOurs = errors.New("watermillinbox: another program publishes to the topic")

// answer works off the line of the place that a message names. The message has done
// its work as soon as the store says that somebody is at it: the broker would give
// it only to processes that the lease keeps out.
func (i *Inbox) answer(m *message.Message) {
	place := string(m.Payload)
	line := lineIn(place)
	if !isPlace(place) {
		if place != "" { // such as the subscriber of AMQP makes up when a connection ends
			i.trouble("received a message that is not its own", errNotOurs)
		}
		m.Ack()
		return
	}
	hint := place
	if place == kindPending+line {
		hint = ""
	}
	i.attend(line, hint, func() { m.Ack() })
	m.Nack() // does nothing after an Ack; else another process may have a better way to the store
}

// attend works off a line. Where the store does not let it, it rests, and has the
// line looked at again.
func (i *Inbox) attend(line, hint string, taken func()) {
	err := i.workOff(line, hint, taken)
	if err == nil {
		return
	}
	i.trouble("cannot claim", err)
	select {
	case <-time.After(storePatience):
		i.queue.add(line)
	case <-i.running.Done():
	}
}
