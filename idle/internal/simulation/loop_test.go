package simulation

// A loop is an event loop: it runs what is posted, one after the other.
type loop struct{ tasks chan func() }

func newLoop() *loop {
	l := &loop{make(chan func(), 64)}
	go func() {
		for task := range l.tasks {
			task()
		}
	}()
	return l
}

func (l *loop) post(task func()) { l.tasks <- task }
func (l *loop) stop()            { close(l.tasks) }

// do runs task on the loop and waits for it.
func (l *loop) do(task func()) {
	done := make(chan struct{})
	l.post(func() {
		defer close(done)
		task()
	})
	<-done
}
