package seal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
)

const (
	// encrypted is the prefix of every value that an API server has encrypted in any way.
	encrypted = "k8s:enc:"
	// secretboxPrefix is followed by the name of the key and a colon.
	secretboxPrefix = encrypted + "secretbox:v1:"
	nonceSize       = 24
)

// seal encrypts a value as the API server does. The result consists of the prefix, the nonce and the box.
func (k Key) seal(plain []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, fmt.Errorf("making a nonce: %w", err)
	}
	out := append([]byte(secretboxPrefix+k.Name+":"), nonce[:]...)
	return secretbox.Seal(out, plain, &nonce, (*[keySize]byte)(k.Secret)), nil
}

// open decrypts the part of a value after the prefix.
func (k Key) open(sealed []byte) ([]byte, error) {
	if len(sealed) < nonceSize+secretbox.Overhead {
		return nil, errors.New("it is truncated")
	}
	nonce, box := (*[nonceSize]byte)(sealed[:nonceSize]), sealed[nonceSize:]
	plain, ok := secretbox.Open(nil, box, nonce, (*[keySize]byte)(k.Secret))
	if !ok {
		return nil, fmt.Errorf("it was changed, or encrypted with a key other than %s", k.Name)
	}
	return plain, nil
}

// reseal returns the value encrypted with the first key, and reports whether this differs from the given value.
func (r *Ring) reseal(value []byte) ([]byte, bool, error) {
	plain := value
	if bytes.HasPrefix(value, []byte(encrypted)) {
		name, sealed, _ := strings.Cut(strings.TrimPrefix(string(value), secretboxPrefix), ":")
		if !bytes.HasPrefix(value, []byte(secretboxPrefix)) {
			return nil, false, errors.New("it is encrypted in a way that this plane does not know")
		}
		if name == r.Keys[0].Name {
			return value, false, nil
		}
		key, ok := r.key(name)
		if !ok {
			return nil, false, fmt.Errorf("it is encrypted with the key %q, which %s does not have; restore that file "+
				"from a copy of the home directory", name, ringFile)
		}
		var err error
		if plain, err = key.open([]byte(sealed)); err != nil {
			return nil, false, err
		}
	}
	out, err := r.Keys[0].seal(plain)
	return out, true, err
}

func (r *Ring) key(name string) (Key, bool) {
	for _, key := range r.Keys {
		if key.Name == name {
			return key, true
		}
	}
	return Key{}, false
}
