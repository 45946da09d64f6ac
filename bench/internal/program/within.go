package program

import (
	"cmp"
	"fmt"
)

// Within returns an error if the value of a flag is not in the range from least
// to most. The error ends with why.
func Within[T cmp.Ordered](flag string, value, least, most T, why string) error {
	if value < least || value > most {
		return fmt.Errorf("-%s is %v; it must be %v to %v%s", flag, value, least, most, why)
	}
	return nil
}
