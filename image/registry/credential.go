//go:build linux

package registry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/service"
	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// credential returns the credential for a registry, or nil. A host has only the credential that it sends; the
// configuration of the machine's user applies to that user's pulls only.
func (p *Puller) credential(registry string, who service.Asker) (*authn.AuthConfig, error) {
	if !who.Auth.Empty() {
		return fromAuth(who.Auth)
	}
	if who.Host {
		return nil, nil
	}
	if registry == "docker.io" {
		registry = name.DefaultRegistry
	}
	reg, err := name.NewRegistry(registry)
	if err != nil {
		return nil, image.Errorf(image.CodeInvalid, "", "%q is not a registry: %v", registry, err)
	}
	found, err := p.Keychain.Resolve(reg)
	if err != nil || found == authn.Anonymous {
		return nil, wrapKeychain(err)
	}
	auth, err := found.Authorization()
	if err != nil {
		return nil, wrapKeychain(err)
	}
	if *auth == (authn.AuthConfig{}) {
		return nil, nil
	}
	return auth, nil
}

func wrapKeychain(err error) error {
	if err == nil {
		return nil
	}
	return image.Errorf(image.CodeDenied, "look at ~/.docker/config.json", "reading the credentials of this user: %v", err)
}

// fromAuth converts a credential from the form of pull secrets.
func fromAuth(a *image.Auth) (*authn.AuthConfig, error) {
	c := &authn.AuthConfig{
		Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
	}
	if a.Auth == "" || c.Username != "" {
		return c, nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(a.Auth))
	user, password, is := strings.Cut(string(text), ":")
	if err != nil || !is {
		return nil, image.Errorf(image.CodeDenied, "look at the pull secret",
			"the credential's field auth is not the base64 form of USERNAME:PASSWORD")
	}
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}

// Bounds of the record.
const (
	acceptedFor = 24 * time.Hour
	maxAccepted = 4096
)

// accepted is a record of successful pulls: which image a registry served to which credential. It stores only keyed
// digests of credentials.
type accepted struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	key     []byte
	entries map[string]entry
}

type entry struct {
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
}

type acceptedFile struct {
	Key     []byte           `json:"key"`
	Entries map[string]entry `json:"entries"`
}

func openAccepted(path string) (*accepted, error) {
	a := &accepted{path: path, now: time.Now, entries: map[string]entry{}}
	data, err := os.ReadFile(path)
	var f acceptedFile
	if err == nil && json.Unmarshal(data, &f) == nil && len(f.Key) == sha256.Size && f.Entries != nil {
		a.key, a.entries = f.Key, f.Entries
		return a, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the record of images that hosts got from registries: %w", err)
	}
	a.key = make([]byte, sha256.Size)
	rand.Read(a.key) // never fails
	return a, nil
}

// id returns the record's key for an image and a credential.
func (a *accepted) id(ref string, auth *authn.AuthConfig) string {
	mac := hmac.New(sha256.New, a.key)
	var parts []string
	if auth != nil {
		parts = []string{auth.Username, auth.Password, auth.IdentityToken, auth.RegistryToken}
	}
	json.NewEncoder(mac).Encode(append([]string{ref}, parts...))
	return hex.EncodeToString(mac.Sum(nil))
}

// add records that a registry has just served an image.
func (a *accepted) add(ref string, auth *authn.AuthConfig, digest string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for id, e := range a.entries {
		if now.Sub(e.At) > acceptedFor {
			delete(a.entries, id)
		}
	}
	for len(a.entries) >= maxAccepted {
		oldest := ""
		for id, e := range a.entries {
			if oldest == "" || e.At.Before(a.entries[oldest].At) {
				oldest = id
			}
		}
		delete(a.entries, oldest)
	}
	a.entries[a.id(ref, auth)] = entry{digest, now}
	data, err := json.Marshal(acceptedFile{a.key, a.entries})
	if err == nil {
		err = atomicfile.Write(a.path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording that a host got an image from a registry: %w", err)
	}
	return nil
}

// find returns the digest that a registry recently served to a credential.
func (a *accepted) find(ref string, auth *authn.AuthConfig) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, is := a.entries[a.id(ref, auth)]
	return e.Digest, is && a.now().Sub(e.At) <= acceptedFor && a.now().After(e.At.Add(-time.Minute))
}
