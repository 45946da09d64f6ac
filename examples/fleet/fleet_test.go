package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	playRole()
	os.Exit(m.Run())
}

// TestEvenness: evenness sees a second that is too full, and a node that gets too many.
func TestEvenness(t *testing.T) {
	begun := time.Now()
	var moves []Move
	for i := range 100 { // ten a second
		at := begun.Add(time.Duration(i) * time.Second / 10)
		moves = append(moves, Move{Told: at, There: at, Node: nodeName(i % 2)})
	}
	if e, p := evenness(moves, 10*time.Second, 2); e > 0.01 || p < 0.99 || p > 1.01 {
		t.Errorf("%.2f %%, %.2f", e, p)
	}
	for i := range 100 {
		moves[i].Node = "node1"
	}
	moves[10].Told = begun
	if e, p := evenness(moves, 10*time.Second, 2); e < 9.9 || p < 1.99 {
		t.Errorf("%.2f %%, %.2f", e, p)
	}
}
