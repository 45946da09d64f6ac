package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// startEngine starts a NATS server in this process, with JetStream, on loopback. If port is
// -1 it takes a free one.
func startEngine(dir string, port int) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return nil, fmt.Errorf("the embedded NATS server is not ready after %v", patience)
	}
	return s, nil
}

// urlFile has the URL of the engine of the fleet that was started last, for commands.
func urlFile() string { return filepath.Join(os.TempDir(), "idlewheel-fleet.url") }
