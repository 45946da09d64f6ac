package node

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These are the subjects of the fleet. A subject that ends with a dot goes on with the name
// of a node.
const (
	subjectPresence = "fleet.presence."   // batches of arrivals and ends, to all directories
	subjectSnapshot = "fleet.snapshot."   // asks a node for all that it has
	subjectTo       = "fleet.to."         // frames for clients of a node
	subjectDrain    = "fleet.drain."      // empties a node: see Drain
	subjectWho      = "fleet.who"         // where clients are; one directory answers
	subjectWhoAll   = "fleet.whoall"      // the same; all directories answer
	subjectWhoOf    = "fleet.whoof."      // the same; the directory of one node answers
	subjectState    = "fleet.state"       // what nodes have; all answer
	bucketLeases    = "fleet-leases"      // a Lease for each node
	bucketControl   = "fleet-control"     // limits
	KeyLimits       = "limits"            // the entry in it
	leaseTTL        = 3 * time.Second     // after which a node that does not renew is gone
	leaseEvery      = leaseTTL / 3        // how often a node renews its lease
	batchEvery      = time.Second / 10    // how often a node tells what has changed, at most
	batchMost       = 5000                // how many clients a batch names, at most
	engineTimeout   = leaseTTL / 3        // for a request
	historyOfLimits = 10                  // limits that are kept
	engineBuffer    = 8192                // messages to the engine that wait in the node
	drainGrace      = 2 * time.Second     // in which a client that was told to move may do so
	drainStop       = 15 * time.Second    // after the last turn in a drain, when those that are left are cut
	who             = "fleet-directories" // the queue group that answers subjectWho
)

// Connect connects to the engine, and goes on trying for as long as the process lives. While
// the engine is away, nothing is stored up for it: a message fails at once, presence waits
// for a snapshot, and clients repeat their letters.
func Connect(url, name string) (*nats.Conn, error) {
	return nats.Connect(url, nats.Name(name),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Timeout(engineTimeout),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Printf("%s: engine: %v", name, err) }))
}

// Buckets opens the two buckets of the fleet, and makes them if they are missing.
func Buckets(ctx context.Context, nc *nats.Conn) (leases, control jetstream.KeyValue, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, err
	}
	leases, err = bucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: bucketLeases, TTL: leaseTTL,
		LimitMarkerTTL: time.Minute, // so that watchers are told when a lease runs out
	})
	if err != nil {
		return nil, nil, err
	}
	control, err = bucket(ctx, js, jetstream.KeyValueConfig{Bucket: bucketControl, History: historyOfLimits})
	return leases, control, err
}

// bucket opens a bucket as it is: an operator may have given it replicas. It makes one that
// is missing.
func bucket(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, c.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, c)
	}
	return kv, err
}

// watch calls see for each entry that a bucket has or gets, and with nil when it has seen
// all that there were. It calls begin, and begins anew, whenever restart says so: when the
// engine is back, what has changed meanwhile would be told late, or never.
func watch(ctx context.Context, kv jetstream.KeyValue, restart <-chan struct{}, begin func(), see func(jetstream.KeyValueEntry), opts ...jetstream.WatchOpt) {
	for ctx.Err() == nil {
		begin()
		w, err := kv.WatchAll(ctx, opts...)
		if err != nil {
			pause(ctx, leaseTTL/10)
			continue
		}
		for on := true; on; {
			select {
			case entry, open := <-w.Updates():
				if on = open; on {
					see(entry)
				}
			case <-restart:
				on = false
			case <-ctx.Done():
				on = false
			}
		}
		w.Stop()
	}
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// answer answers a request.
func answer(m *nats.Msg, v any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = m.Respond(text)
	}
	if err != nil {
		log.Print("answering ", m.Subject, ": ", err) // the one who has asked asks again
	}
}
