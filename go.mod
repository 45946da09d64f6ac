module github.com/idlewheel/idlewheel

go 1.26.0
