//go:build !unix && !windows

package pressure

import "time"

func cpuUsed() (time.Duration, error) { return 0, unsupported("CPU time of the process") }
