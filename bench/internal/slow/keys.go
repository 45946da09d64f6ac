package slow

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// keys encrypt what a client sends over TLS 1.3 (RFC 8446). crypto/tls can't send a KeyUpdate, so
// cases that do write all their records themselves after the handshake. crypto/tls still reads.
type keys struct {
	hash   func() hash.Hash
	size   int // of a key
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newKeys returns the keys that follow from the client's first secret.
func newKeys(suite uint16, secret []byte) (*keys, error) {
	k := &keys{hash: sha256.New, size: 16, secret: secret}
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256:
	case tls.TLS_AES_256_GCM_SHA384:
		k.hash, k.size = sha512.New384, 32
	default:
		return nil, fmt.Errorf("the server has chosen %s; this case needs AES-GCM", tls.CipherSuiteName(suite))
	}
	return k, k.derive()
}

// derive computes key and IV from the secret.
func (k *keys) derive() error {
	key, err := k.expand("key", k.size)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	var failed error
	k.aead, err = cipher.NewGCM(block)
	k.iv, failed = k.expand("iv", 12)
	k.seq = 0
	return errors.Join(err, failed)
}

// expand is HKDF-Expand-Label with an empty context.
func (k *keys) expand(label string, length int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(append(append(info, byte(len(label))), label...), 0)
	return hkdf.Expand(k.hash, k.secret, string(info), length)
}

// The types of records.
const (
	handshakeRecord = 22
	dataRecord      = 23
)

// seal returns a record.
func (k *keys) seal(kind byte, content string) []byte {
	inner := append([]byte(content), kind)
	head := binary.BigEndian.AppendUint16([]byte{dataRecord, 3, 3}, uint16(len(inner)+k.aead.Overhead()))
	nonce := bytes.Clone(k.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^k.seq)
	k.seq++
	return k.aead.Seal(head, nonce, inner, head)
}

// update returns a KeyUpdate, and changes to the next keys. It doesn't ask the server to update
// its own: crypto/tls gives up reading after 16 updates in a row.
func (k *keys) update() ([]byte, error) {
	record := k.seal(handshakeRecord, "\x18\x00\x00\x01\x00")
	next, err := k.expand("traffic upd", k.hash().Size())
	if err != nil {
		return nil, err
	}
	k.secret = next
	return record, k.derive()
}

// secretLog is a tls.Config.KeyLogWriter that keeps the client's first secret.
type secretLog struct{ client []byte }

func (l *secretLog) Write(line []byte) (int, error) {
	if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "CLIENT_TRAFFIC_SECRET_0" {
		l.client, _ = hex.DecodeString(string(fields[2]))
	}
	return len(line), nil
}

// updateKeys sends a KeyUpdate.
func (p *peer) updateKeys() error {
	record, err := p.keys.update()
	if err == nil {
		p.wire.Write(record) // an error means that the connection has ended, which reading finds
	}
	return err
}

// keyUpdates sends a KeyUpdate after each pause.
func (p *peer) keyUpdates() error {
	for p.rest(p.Pause) {
		if err := p.updateKeys(); err != nil {
			return err
		}
	}
	return nil
}
