package machine

import "runtime"

// A Where is, in short, where figures are from.
type Where struct {
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	CPUs      int    `json:"cpus"` // that Go uses
}

// Here returns where this process runs.
func Here() Where {
	return Where{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, runtime.GOMAXPROCS(0)}
}
