package main

import "testing"

func TestLimitFor(t *testing.T) {
	used := map[uint64]bool{0: true, 1: true, 2: true, 5: true, 251: true}
	for free, want := range map[int]uint64{0: 0, 1: 4, 2: 5, 3: 7, 4: 8} {
		if got := limitFor(used, free); got != want {
			t.Errorf("for %d: %d, want %d", free, got, want)
		}
	}
}

func TestDescriptors(t *testing.T) {
	used, err := descriptors()
	if err != nil || !used[0] || !used[1] || !used[2] {
		t.Errorf("got %v, %v", used, err)
	}
}
