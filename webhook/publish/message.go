package publish

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Metadata of a message. The payload is the encrypted body. Neither payload nor metadata
// show patient data.
const (
	// MetadataKey is the text of the event's [webhook.Key]. The ID of the message is the
	// same text if an [Inbox] published it, so that a broker can drop repeats. Dead
	// letters and replayed messages have other IDs.
	MetadataKey = "event_key"

	// MetadataOrderingKey is the [webhook.OrderingKey] of the event, which is a digest. Messages
	// with the same key are to be handled in the order of the topic.
	MetadataOrderingKey = "ordering_key"

	// MetadataType is the type of the event, such as "order.placed".
	MetadataType = "event_type"

	// MetadataClinicID is the clinic of the event; it may be empty.
	MetadataClinicID = "clinic_id"

	// MetadataCreatedAt is when the event happened, and MetadataReceivedAt when it
	// arrived, both as in RFC 3339. The first is absent where the platform did not
	// say.
	MetadataCreatedAt  = "created_at"
	MetadataReceivedAt = "received_at"
)

// OrderingKey returns the ordering key of a message, for drivers that ask for a partition key:
//
//	kafka.NewWithPartitioningMarshaler(publish.OrderingKey)
func OrderingKey(_ string, msg *message.Message) (string, error) {
	return msg.Metadata.Get(MetadataOrderingKey), nil
}

// newMessage makes the message of an event.
func newMessage(ctx context.Context, aead seal.AEAD, order func(webhook.Delivery, events.Event) webhook.OrderingKey, d webhook.Delivery) (*message.Message, error) {
	sealed, err := inboxkit.SealBody(aead, d.Key, d.Body)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessageWithContext(ctx, d.Key.String(), sealed)
	msg.Metadata.Set(MetadataKey, d.Key.String())
	if event, err := d.Event(); err == nil {
		msg.Metadata.Set(MetadataOrderingKey, string(order(d, event)))
	}
	msg.Metadata.Set(MetadataType, string(d.Type))
	msg.Metadata.Set(MetadataClinicID, d.ClinicID)
	msg.Metadata.Set(MetadataReceivedAt, d.ReceivedAt.UTC().Format(time.RFC3339Nano))
	if !d.CreatedAt.IsZero() {
		msg.Metadata.Set(MetadataCreatedAt, d.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	return msg, nil
}

// readMessage reads an event back. Its error is why the body is missing.
func readMessage(aead seal.AEAD, msg *message.Message) (webhook.Delivery, error) {
	d := webhook.Delivery{
		Type:       events.Type(msg.Metadata.Get(MetadataType)),
		ClinicID:   msg.Metadata.Get(MetadataClinicID),
		CreatedAt:  parseTime(msg.Metadata.Get(MetadataCreatedAt)),
		ReceivedAt: parseTime(msg.Metadata.Get(MetadataReceivedAt)),
	}
	if err := d.Key.UnmarshalText([]byte(msg.Metadata.Get(MetadataKey))); err != nil {
		return d, webhook.Permanent(err) // a message that no Inbox has published
	}
	var err error
	d.Body, err = inboxkit.OpenBody(aead, d.Key, msg.Payload)
	return d, err
}

func parseTime(text string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, text) // zero where there is none
	return at
}
