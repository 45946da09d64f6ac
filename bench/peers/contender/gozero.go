package contender

import (
	"time"

	"github.com/zeromicro/go-zero/core/collection"
)

// goZero is a hashed wheel with rounds, whose one goroutine is sent everything
// over channels.
type goZero struct {
	timeout time.Duration
	wheel   *collection.TimingWheel
	keys    []int // the address of each is the key of a connection
}

func goZeroKind() Kind {
	return Kind{
		Name:   "go-zero",
		What:   "go-zero's collection.TimingWheel, MoveTimer at every activity",
		Module: "github.com/zeromicro/go-zero",
		Note:   "with slots enough that no timer needs a second round",
		New:    newGoZero,
	}
}

func newGoZero(timeout time.Duration, expired func(int)) (Contender, error) {
	slots := int(timeout/Tick) + 2
	w, err := collection.NewTimingWheel(Tick, slots, func(key, _ any) { expired(*key.(*int)) })
	if err != nil {
		return nil, err
	}
	return &goZero{timeout: timeout, wheel: w}, nil
}

func (g *goZero) Open(n int) error {
	g.keys = make([]int, n)
	for i := range g.keys {
		g.keys[i] = i
	}
	return nil
}

func (g *goZero) Arm(i int) error { return g.wheel.SetTimer(&g.keys[i], nil, g.timeout) }

func (g *goZero) Cancel(i int) { _ = g.wheel.RemoveTimer(&g.keys[i]) } // fails only after Close

func (g *goZero) Touch(list []uint32) {
	for _, i := range list {
		_ = g.wheel.MoveTimer(&g.keys[i], g.timeout) // likewise
	}
}

func (g *goZero) Close() { g.wheel.Stop() }
