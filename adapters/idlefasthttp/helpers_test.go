package idlefasthttp

import (
	"io"
	"log"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

func TestMain(m *testing.M) { httpsuite.Main(m, "fasthttp.(*Server)") }

// mute is for servers that have reason to log.
var mute = log.New(io.Discard, "", 0)
