//go:build idletrace

package words

// goroutine returns a number of the current goroutine: the address of its descriptor. The
// one in a stack trace takes ten times as long as all else that an access does.
func goroutine() uint64
