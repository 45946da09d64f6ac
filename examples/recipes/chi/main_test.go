package main

import (
	"testing"

	"github.com/idlewheel/idlewheel/examples/recipes/internal/try"
)

func TestServe(t *testing.T) { try.InVirtualTime(t, serve) }
