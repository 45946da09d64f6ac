package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// These are the subjects of the fleet, after its name and a dot. A subject that ends with a dot
// goes on with the name of a node, or with the number of a partition (and a node, for presence).
const (
	subjectPresence = "presence."      // batches of arrivals and ends, to all directories of a partition
	subjectSnapshot = "snapshot."      // asks a node for all that it has in a partition
	subjectTakeOver = "takeover."      // tells a node that a client has a later session elsewhere
	subjectTo       = "to."            // frames for clients of a node
	subjectDrain    = "drain."         // empties a node: see Fleet.Drain
	subjectDrained  = "drained."       // the last word of a node that was drained
	subjectWho      = "who."           // where clients are; all directories of a partition answer
	subjectWhoOf    = "whoof."         // the same; the directories of one process answer
	subjectState    = "state"          // what nodes have; all answer
	bucketLeases    = "-leases"        // a Lease for each node
	bucketControl   = "-control"       // limits
	leaseTTL        = 3 * time.Second  // after which a node that does not renew is gone
	leaseEvery      = leaseTTL / 3     // how often a node renews its lease
	batchEvery      = time.Second / 10 // how often a node tells what has changed, at most
	batchMost       = 5000             // how many clients a batch names, at most
	engineTimeout   = leaseTTL / 3     // for a request
	historyOfLimits = 10               // limits that are kept
	engineBuffer    = 8192             // messages to the engine that wait in the node
	askMost         = 256              // letters that wait in a node for the answer of a directory
	believedFor     = 2 * time.Second  // how long an answer of a directory is believed, up to twice that
	drainGrace      = 2 * time.Second  // in which a client that was told to move may do so
	drainStop       = 15 * time.Second // after the last turn in a drain, when those that are left are cut
	spreadAfter     = 10 * time.Second // an imbalance that lasts for so long is corrected
)

// KeyLimits is the entry of the bucket of [Fleet.Control] that has the [Limits], as JSON.
const KeyLimits = "limits"

// A Fleet is a connection to the engine, and the name of a fleet there. Subjects and buckets
// begin with that name, so fleets with different names share an engine and nothing else.
type Fleet struct {
	*nats.Conn
	Partitions int // of presence
	name       string
	replicas   int
}

// Connect connects to the engine, and keeps trying for as long as the process lives, even if
// its credentials are refused: an operator may be changing them. It tries each address once, for
// about a second, and then returns, connected or not: see IsConnected. It fails only if a name or
// URL is invalid. While the engine is away,
// nothing is stored up for it: a message fails at once, presence waits for a snapshot, and
// clients repeat their letters.
func Connect(c Config) (*Fleet, error) {
	if !wire.Plain(c.Fleet, "-_") {
		return nil, fmt.Errorf("Config.Fleet is %q; use letters, digits, '-' and '_' only, because the name is part of subjects", c.Fleet)
	}
	nc, err := nats.Connect(c.Engine, nats.Name(c.Name),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Timeout(engineTimeout),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Printf("%s: engine: %v", c.Name, err) }))
	return &Fleet{nc, max(1, c.Partitions), c.Fleet, c.Replicas}, err
}

// at returns a subject of this fleet.
func (f *Fleet) at(subject string) string { return f.name + "." + subject }

// numbered returns the subject of a partition.
func numbered(subject string, partition int) string { return subject + strconv.Itoa(partition) }

// A Store is a bucket of the fleet. It numbers what is written in it so that later numbers are
// greater, even if the engine has lost the bucket and counts its revisions from 1 again.
type Store struct {
	jetstream.KeyValue
	made uint64 // when the engine made the bucket, in microseconds since 1970
}

// Number returns the number of a revision. A bucket that was made later begins with greater
// numbers as long as fewer than a million entries a second were written to the former one, and
// the clock of the engine was not set back by as much as the former bucket existed.
func (s Store) Number(revision uint64) uint64 { return s.made + revision }

// leases opens the bucket of leases.
func (f *Fleet) leases(ctx context.Context) (Store, error) {
	return f.open(ctx, jetstream.KeyValueConfig{
		Bucket: f.name + bucketLeases, TTL: leaseTTL, Replicas: f.replicas,
		LimitMarkerTTL: time.Minute, // so that watchers are told when a lease runs out
	})
}

// Control opens the bucket of limits.
func (f *Fleet) Control(ctx context.Context) (Store, error) {
	return f.open(ctx, jetstream.KeyValueConfig{Bucket: f.name + bucketControl, History: historyOfLimits, Replicas: f.replicas})
}

// open opens a bucket as it is, because an operator may have configured it. It makes one that
// is missing.
func (f *Fleet) open(ctx context.Context, c jetstream.KeyValueConfig) (s Store, err error) {
	var major, minor int
	version := f.ConnectedServerVersion()
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 2 || major == 2 && minor < 11) {
		return s, fmt.Errorf("the engine is NATS %s; leases need 2.11 or later", version)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*engineTimeout) // up to three requests
	defer cancel()
	js, err := jetstream.New(f.Conn)
	if err != nil {
		return s, err
	}
	s.KeyValue, err = js.KeyValue(ctx, c.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		log.Printf("the engine has no bucket %s; making it", c.Bucket)
		s.KeyValue, err = js.CreateKeyValue(ctx, c)
	}
	if err != nil {
		return s, err
	}
	status, err := s.Status(ctx)
	if err != nil {
		return s, err
	}
	bucket, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return s, fmt.Errorf("the engine does not say when it made the bucket %s", c.Bucket)
	}
	s.made = uint64(bucket.StreamInfo().Created.UnixMicro())
	return s, nil
}

// watch calls see for each entry that a bucket has or gets, and with nil when it has seen
// all that there were. It opens the bucket again and starts over with begin whenever restart
// says so, because it may be another one.
func watch(ctx context.Context, open func(context.Context) (Store, error), restart <-chan struct{}, begin func(), see func(Store, jetstream.KeyValueEntry), opts ...jetstream.WatchOpt) {
	said := ""
	for ctx.Err() == nil {
		s, err := open(ctx)
		var w jetstream.KeyWatcher
		if err == nil {
			begin()
			w, err = s.WatchAll(ctx, opts...)
		}
		if err != nil {
			if said != err.Error() {
				said = err.Error()
				log.Printf("the engine cannot be watched yet; still trying: %v", err)
			}
			pause(ctx, leaseTTL/10)
			continue
		}
		said = ""
		for on := true; on; {
			select {
			case entry, open := <-w.Updates():
				if on = open; on {
					see(s, entry)
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
