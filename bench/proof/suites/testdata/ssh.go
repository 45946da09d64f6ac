package hook_test

import "golang.org/x/crypto/ssh"

func init() { ssh.SuitesHook = wrapConn }
