package sample

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		stop := Every(time.Second, func() time.Duration { return time.Since(begun) })
		time.Sleep(2500 * time.Millisecond)
		if got := stop(); !slices.Equal(got, []time.Duration{0, time.Second, 2 * time.Second}) {
			t.Errorf("samples at %v", got)
		}
	})
}
