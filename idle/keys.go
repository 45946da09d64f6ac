package idle

import (
	"fmt"
	"net/netip"
	"sync"
)

// keys counts connections by a key, such as the client's address.
type keys struct {
	most  int
	key   func(owner any) string
	calls *callbacks

	mu    sync.Mutex
	of    map[*entry]string
	count map[string]int
}

func newKeys(c *Capacity, calls *callbacks) *keys {
	k := &keys{most: c.PerKey, key: c.Key, calls: calls, of: map[*entry]string{}, count: map[string]int{}}
	if k.key == nil {
		k.key = ByAddress
	}
	return k
}

// enter counts e. It fails if there are enough of its key.
func (k *keys) enter(e *entry, owner any) error {
	if k.most == 0 {
		return nil
	}
	key := k.keyOf(owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, has := k.of[e]; !has && key != "" && k.count[key] >= k.most {
		return fmt.Errorf("%d connections of %s: %w", k.most, key, ErrFull)
	}
	k.put(e, key)
	return nil
}

// adopt counts e, which is tracked already, although there may be enough of its key.
func (k *keys) adopt(e *entry, owner any) {
	key := k.keyOf(owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(e, key)
}

// put counts e unless it is counted already, or its key is empty. k.mu must be held.
func (k *keys) put(e *entry, key string) {
	if _, has := k.of[e]; !has && key != "" {
		k.of[e] = key
		k.count[key]++
	}
}

// leave takes e out of the count.
func (k *keys) leave(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, has := k.of[e]
	if !has {
		return
	}
	delete(k.of, e)
	if k.count[key]--; k.count[key] == 0 {
		delete(k.count, key)
	}
}

// keyOf calls the user's Key. The result is empty if that panics.
func (k *keys) keyOf(owner any) (key string) {
	k.calls.guard("Key", func() { key = k.key(owner) })
	return key
}

// ByAddress is the default of Capacity.Key: the IP address of the owner's peer, or the /64
// to which an IPv6 address belongs. It asks the owner as Options.Label does. It returns "",
// which is not counted, if there is no address, or if it is not known yet.
func ByAddress(owner any) string {
	addr, ok := knownAddr(owner).(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return ""
	}
	ip := addr.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() {
		net, _ := ip.Prefix(64)
		return net.String()
	}
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}
