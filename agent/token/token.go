// Package token keeps the agent's credential: a short-lived token that the agent itself renews.
package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Keeper holds the token in use. There may be two candidates: the token in the configuration, written by whoever
// enrolled the host, and the token that the agent requested itself and keeps on disk. Keeper uses the newer one of
// those that are still valid and that the server accepts.
type Keeper struct {
	path       string
	configured func() (string, error)
	now        func() time.Time

	mu       sync.Mutex
	used     token
	rejected map[string]bool
	refused  chan struct{} // holds at most one value
}

// token is a bearer token with its claims.
type token struct {
	text            string
	issued, expires time.Time // zero if the token does not say
	own             bool      // requested by the agent itself
	secret          string    // the Secret that the token is bound to; empty if there is none, or if it is unknown
}

// Open reads the tokens. configured returns the token in the configuration (may be empty); path is the file with the
// agent's own token.
func Open(path string, configured func() (string, error)) (*Keeper, error) {
	k := &Keeper{path: path, configured: configured, now: time.Now, rejected: map[string]bool{},
		refused: make(chan struct{}, 1)}
	k.choose()
	if k.used.text == "" {
		return nil, errors.New("there is no token: enroll the host again to write one to the configuration")
	}
	return k, nil
}

// Token returns the token to use.
func (k *Keeper) Token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.text
}

// Reject reports that the server does not accept a token. Keeper then tries the other one. It also re-reads the
// configuration, because somebody may have enrolled the host again.
func (k *Keeper) Reject(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text != k.used.text {
		return // the token was renewed or rejected meanwhile
	}
	if len(k.rejected) > 16 {
		clear(k.rejected)
	}
	k.rejected[text] = true
	k.choose()
	if k.rejected[k.used.text] {
		select {
		case k.refused <- struct{}{}:
		default:
		}
	}
}

// Refused returns a channel that receives a value after the server has refused the last remaining token.
func (k *Keeper) Refused() <-chan struct{} { return k.refused }

// Last returns the token in use, and whether the server has refused it. If so, there is no other token.
func (k *Keeper) Last() (text string, refused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.text, k.rejected[k.used.text]
}

// Keep starts using a new token and writes it to disk.
func (k *Keeper) Keep(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = parse(text, true)
	if err := atomicfile.Write(k.path, []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("storing the token: %w", err)
	}
	return nil
}

// RenewIn returns how long to wait before renewing the token: until a third of its lifetime has passed, or 0 if the
// agent did not request the token itself.
func (k *Keeper) RenewIn() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.used.own {
		return 0
	}
	return k.used.renewIn(k.now())
}

// Secret returns the name of the Secret that the token in use is bound to according to its own claims; empty if none.
func (k *Keeper) Secret() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.secret
}

// Secret returns the name of the Secret that a token is bound to according to its own claims; empty if none.
func Secret(text string) string { return parse(text, true).secret }

// RenewIn returns how long to wait before renewing a token that the agent requested itself, like Keeper.RenewIn.
func RenewIn(text string, now time.Time) time.Duration { return parse(text, true).renewIn(now) }

func (t token) renewIn(now time.Time) time.Duration {
	if t.expires.IsZero() || t.issued.IsZero() {
		return 0
	}
	return max(0, t.issued.Add(t.expires.Sub(t.issued)/3).Sub(now))
}

// choose selects the token in use from the files. If one file can't be used, the other one is. If neither has a token,
// the current token stays in use.
func (k *Keeper) choose() {
	var found []token
	if data, err := os.ReadFile(k.path); err == nil {
		found = append(found, parse(strings.TrimSpace(string(data)), true))
	} else if !errors.Is(err, fs.ErrNotExist) && k.used.own {
		found = append(found, k.used)
	}
	if text, err := k.configured(); err == nil {
		found = append(found, parse(strings.TrimSpace(text), false))
	}
	best := -1
	for i, t := range found {
		if t.text != "" && (best < 0 || k.better(t, found[best])) {
			best = i
		}
	}
	if best >= 0 {
		k.used = found[best]
	}
}

// better reports whether to prefer the first token.
func (k *Keeper) better(a, b token) bool {
	if ra, rb := k.rejected[a.text], k.rejected[b.text]; ra != rb {
		return rb
	}
	if va, vb := a.valid(k.now()), b.valid(k.now()); va != vb {
		return va
	}
	return a.issued.After(b.issued)
}

func (t token) valid(now time.Time) bool { return t.expires.IsZero() || now.Before(t.expires) }

// parse reads the claims of a JSON web token. It does not verify the signature, which only the server can do. Tokens of
// other kinds have no claims.
func parse(text string, own bool) token {
	t := token{text: text, own: own}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t
	}
	var claims struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
		Bound   struct {
			Secret struct {
				Name string `json:"name"`
			} `json:"secret"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return t
	}
	t.secret = claims.Bound.Secret.Name
	if claims.Issued > 0 {
		t.issued = time.Unix(claims.Issued, 0)
	}
	if claims.Expires > 0 {
		t.expires = time.Unix(claims.Expires, 0)
	}
	return t
}
