package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Fleet is a connection to NATS and the name of a fleet there. Any process may have one to ask
// the nodes and to set their limits. The nats command can do the same:
//
//	nats req fleet.who client-17
//	nats kv put fleet-control limits "idle=1m write=5s"
//	nats kv watch fleet-nodes
type Fleet struct {
	nc       *nats.Conn
	name     string
	replicas int
}

// A Lease is the entry of a node in the bucket FLEET-nodes. The node renews it every second. It
// expires three seconds after the last time.
type Lease struct {
	Address string `json:"address"` // for clients
	Open    bool   `json:"open"`    // it takes clients
	Clients int    `json:"clients"`
	Limits  string `json:"limits"`            // that apply
	Refused string `json:"refused,omitempty"` // why the limits that were set last don't
}

const (
	leaseTTL   = 3 * time.Second
	renewEvery = leaseTTL / 3
	whoTimeout = time.Second
	limitsKey  = "limits" // in the bucket FLEET-control
)

// Connect connects to NATS, and keeps trying for as long as the process lives. It returns after the
// first attempt, connected or not, and fails only if an argument is invalid. replicas is the number
// of NATS servers that store a bucket, if it has to be made.
func Connect(urls, fleet, process string, replicas int) (*Fleet, error) {
	if err := cmp.Or(checkName(fleet), checkName(process)); err != nil {
		return nil, err // both are parts of subjects
	}
	nc, err := nats.Connect(urls, nats.Name(process), nats.Timeout(renewEvery),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(renewEvery/2),
		nats.IgnoreAuthErrorAbort(), // an operator may be changing the credentials
		nats.ReconnectBufSize(-1),   // while NATS is away, fail at once and store nothing up
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Printf("%s: NATS: %v", process, err) }))
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", urls, err)
	}
	return &Fleet{nc, fleet, replicas}, nil
}

// Close closes the connection.
func (f *Fleet) Close() { f.nc.Close() }

// buckets opens the bucket of leases and the one of limits. It makes those that are missing, and
// uses existing ones as they are, because an operator may have configured them.
func (f *Fleet) buckets(ctx context.Context) (nodes, control jetstream.KeyValue, err error) {
	js, err := jetstream.New(f.nc, jetstream.WithDefaultTimeout(renewEvery))
	if err != nil {
		return nil, nil, err
	}
	open := func(c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
		c.Replicas = f.replicas
		kv, err := js.KeyValue(ctx, c.Bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			kv, err = js.CreateKeyValue(ctx, c)
		}
		if err != nil {
			err = fmt.Errorf("the bucket %s: %w", c.Bucket, err)
		}
		return kv, err
	}
	// With a LimitMarkerTTL, which needs NATS 2.11, watchers are told when a lease expires.
	nodes, err = open(jetstream.KeyValueConfig{Bucket: f.name + "-nodes", TTL: leaseTTL, LimitMarkerTTL: time.Minute})
	if err == nil {
		control, err = open(jetstream.KeyValueConfig{Bucket: f.name + "-control", MaxValueSize: 256}) // leases may quote a value
	}
	return nodes, control, err
}

// Nodes returns the leases of all nodes, by name. They are up to a second old.
func (f *Fleet) Nodes(ctx context.Context) (map[string]Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	nodes, _, err := f.buckets(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := nodes.ListKeys(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Lease{}
	for name := range keys.Keys() {
		e, err := nodes.Get(ctx, name)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // it has just expired
		}
		var l Lease
		if err == nil {
			err = json.Unmarshal(e.Value(), &l)
		}
		if err != nil {
			return nil, fmt.Errorf("the lease of %s: %w", name, err)
		}
		all[name] = l
	}
	return all, ctx.Err()
}

// Who returns the node that a client is connected to, or "" if no node has replied within a second.
// All nodes are asked, and the one that has the client replies.
func (f *Fleet) Who(client string) (node string, err error) {
	m, err := f.nc.Request(f.name+".who", []byte(client), whoTimeout)
	switch {
	case err == nil:
		return string(m.Data), nil
	case errors.Is(err, nats.ErrTimeout) && f.nc.IsConnected():
		return "", nil
	}
	return "", fmt.Errorf("asking where %s is: %w", client, err)
}

// SetLimits replaces the limits of all nodes. The nodes check them, and say in their leases whether
// they apply them.
func (f *Fleet) SetLimits(ctx context.Context, l Limits) error {
	_, control, err := f.buckets(ctx)
	if err == nil {
		_, err = control.PutString(ctx, limitsKey, l.String())
	}
	return err
}
