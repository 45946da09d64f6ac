package hook_test

import "github.com/coder/websocket/internal/test/wstest"

func init() {
	if suitesWrap != "" {
		wstest.SuitesHook = wrapConn
	}
}
