//go:build nightly

package brokers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func init() {
	embeddedKafka = func(t *testing.T) string {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(8), kfake.AllowAutoTopicCreation(),
			kfake.GroupMinSessionTimeout(100*time.Millisecond))
		require.NoError(t, err)
		t.Cleanup(cluster.Close)
		return "kafka://" + cluster.ListenAddrs()[0]
	}
}
