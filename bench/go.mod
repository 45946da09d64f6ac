module github.com/idlewheel/idlewheel/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/idlewheel/idlewheel v0.0.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

replace github.com/idlewheel/idlewheel => ../
