package attack

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A state is how the server is, as it says itself and as the kernel does.
type state struct {
	snapshot
	RSS int64 `json:"rss_bytes"`
	unsent
}

// An unsent is what the kernel keeps of connections that the server has closed
// and whose peers do not read: they stay, with what is yet to be sent, until it
// gives up about a minute later.
type unsent struct {
	Sockets int   `json:"unsent_sockets"`
	Bytes   int64 `json:"unsent_bytes"`
}

// residentBytes returns how much memory a process has.
func residentBytes(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Fscan(bytes.NewReader(statm), &size, &pages); err != nil {
		return 0, fmt.Errorf("statm is %q: %w", statm, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// findUnsent looks for what is unsent of the connections to a port of this
// machine.
func findUnsent(port int) (unsent, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	return countUnsent(string(table), port), err
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
