package idlenet

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestReadTimeoutDoesNotCountWhileHandlerComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		go client.Write([]byte("request"))
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * limit)
		if server.Timeout() != nil {
			t.Fatal("nobody was reading, but", server.Timeout())
		}
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonRead)
		onTime(t, at, start, limit)
	})
}

func TestWriteTimeoutDoesNotCountBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: 100 * time.Millisecond}), nil)
		go readAll(client)
		for range 5 {
			if _, err := server.Write(make([]byte, 3*chunk)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Whoever polls waits for the peer all the same.
func TestPolledReadsHitReadTimeout(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 70 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 200 * time.Millisecond
				server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
				go client.Write([]byte("x"))
				if err := read1(server); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err, at := await(t, func() error {
					for {
						server.SetReadDeadline(time.Now().Add(every))
						err := read1(server)
						if server.Timeout() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
							return err
						}
						wantUserTimeout(t, err)
					}
				})
				if errors.Is(err, os.ErrDeadlineExceeded) && server.Timeout() != nil {
					err = read1(server) // the last poll may have ended for both reasons at once
				}
				wantTimeout(t, err, idle.ReasonRead)
				onTime(t, at, start, limit)
			})
		})
	}
}

// After a poll that got nothing the handler may compute as long as it likes.
func TestReadTimeoutDoesNotCountBetweenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		server, _ := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		server.SetReadDeadline(time.Now().Add(limit / 2))
		wantUserTimeout(t, read1(server))
		time.Sleep(10 * limit)
		if server.Timeout() != nil {
			t.Fatal("nobody was reading, but", server.Timeout())
		}
		server.SetReadDeadline(time.Time{})
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonRead)
		onTime(t, at, start, limit)
	})
}

func TestUserReadDeadlineKeepsItsMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute}), nil)
		start := time.Now()
		server.SetReadDeadline(start.Add(50 * time.Millisecond))
		err, at := await(t, func() error { return read1(server) })
		wantUserTimeout(t, err)
		if at.Sub(start) != 50*time.Millisecond {
			t.Errorf("after %v", at.Sub(start))
		}
		server.SetDeadline(time.Time{})
		go client.Write([]byte("x"))
		if err := read1(server); err != nil {
			t.Error("after the deadline was lifted:", err)
		}
	})
}

func TestUserWriteDeadlineKeepsItsMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: time.Minute}), nil)
		server.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		err, _ := await(t, func() error { return writeHuge(server) })
		wantUserTimeout(t, err)
		server.SetWriteDeadline(time.Time{})
		go readAll(client)
		if err := writeHuge(server); err != nil {
			t.Error("after the deadline was lifted:", err)
		}
	})
}

// A write that the user gave up is no longer waiting.
func TestAbandonedWriteIsNotHeldAgainstPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := pipe(t, newTracker(t, idle.Policy{WriteTimeout: 100 * time.Millisecond}), nil)
		server.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		err, _ := await(t, func() error { return writeHuge(server) })
		wantUserTimeout(t, err)
		time.Sleep(time.Second)
		if server.Timeout() != nil {
			t.Error("no write was waiting, but", server.Timeout())
		}
	})
}

func TestLaterDeadlineDoesNotRevive(t *testing.T) {
	for name, set := range map[string]func(*Conn, time.Time) error{
		"SetDeadline": (*Conn).SetDeadline, "SetReadDeadline": (*Conn).SetReadDeadline, "SetWriteDeadline": (*Conn).SetWriteDeadline,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: 100 * time.Millisecond}), nil)
				err, _ := await(t, func() error { return read1(server) })
				wantTimeout(t, err, idle.ReasonIdle)
				go readAll(client)
				for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
					set(server, until)
					err, _ := await(t, func() error { return read1(server) })
					wantTimeout(t, err, idle.ReasonIdle)
					_, err = server.Write([]byte("x"))
					wantTimeout(t, err, idle.ReasonIdle)
				}
			})
		})
	}
}

// Servers that set a deadline before each read never see a gap in which the
// poke of a timeout is lost.
func TestDeadlineBeforeEachReadDoesNotHideTimeout(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond})
	g := together{t: t}
	defer g.wait.Wait()
	for range 20 {
		g.run("", func(t *testing.T) {
			server, _ := connect(t, tracker, nil)
			err, _ := await(t, func() error {
				for {
					server.SetReadDeadline(time.Now().Add(time.Millisecond))
					if err := read1(server); server.Timeout() != nil {
						return err
					}
				}
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			server.SetReadDeadline(time.Now().Add(time.Hour))
			err, _ = await(t, func() error { return read1(server) })
			wantTimeout(t, err, idle.ReasonIdle)
		})
	}
}
