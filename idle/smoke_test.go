package idle

import (
	"testing"
	"testing/synctest"
	"time"
)

type probe struct {
	Conn
	at  time.Time
	err *TimeoutError
}

func (p *probe) Expire(err *TimeoutError) { p.at, p.err = time.Now(), err }

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		p := &probe{}
		if err := tr.Track(&p.Conn, p); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(30*time.Second + 3*time.Millisecond)
		p.Touch()
		last := time.Now()
		time.Sleep(2 * time.Minute)
		t.Log(last.Sub(start), p.at.Sub(last), p.err, tr.Stats())
	})
}
