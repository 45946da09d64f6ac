package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// residentBytes returns how much memory a process has, as /proc says.
func residentBytes(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	return parseStatm(string(statm), os.Getpagesize())
}

func parseStatm(statm string, pageSize int) (int64, error) {
	fields := strings.Fields(statm)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm is %q; at least two numbers were expected", statm)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm is %q: %w", statm, err)
	}
	return pages * int64(pageSize), nil
}

// An unsent is what the kernel keeps of connections that the server has closed:
// those that their peers do not read from stay, with what is yet to be sent, until
// the kernel gives up, about a minute later.
type unsent struct {
	Sockets int   `json:"unsent_sockets"`
	Bytes   int64 `json:"unsent_bytes"`
}

// findUnsent looks for what is unsent of the connections to a port of this
// machine.
func findUnsent(port int) (unsent, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return unsent{}, err
	}
	return countUnsent(string(table), port), nil
}

func countUnsent(table string, port int) (u unsent) {
	const closed = "04 09 0B" // FIN_WAIT1, LAST_ACK, CLOSING
	local := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasSuffix(fields[1], local) || !strings.Contains(closed, fields[3]) {
			continue
		}
		queue, _, _ := strings.Cut(fields[4], ":")
		if n, err := strconv.ParseInt(queue, 16, 64); err == nil && n > 0 {
			u.Sockets++
			u.Bytes += n
		}
	}
	return u
}
