package hook_test

import "golang.org/x/crypto/ssh"

func init() {
	if suitesWrap != "" {
		ssh.SuitesHook = wrapConn
	}
}
