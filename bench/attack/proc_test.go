package main

import "testing"

func TestStatm(t *testing.T) {
	if n, err := parseStatm("1000 250 100 1 0 50 0\n", 4096); err != nil || n != 250*4096 {
		t.Errorf("got %d, %v", n, err)
	}
	for _, bad := range []string{"", "1000", "1000 x"} {
		if _, err := parseStatm(bad, 4096); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestUnsent(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000
   1: 0100007F:1F90 0100007F:8001 01 00000064:00000000 00:00000000 00000000
   2: 0100007F:1F90 0100007F:8002 04 00000100:00000000 00:00000000 00000000
   3: 0100007F:1F90 0100007F:8003 04 00000000:00000000 00:00000000 00000000
   4: 0100007F:1F90 0100007F:8004 0B 00000010:00000000 00:00000000 00000000
   5: 0100007F:8002 0100007F:1F90 04 00000100:00000000 00:00000000 00000000
`
	if got, want := countUnsent(table, 8080), (unsent{2, 0x110}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
