package testapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// bound returns the claims of a token about the Secret that it is bound to.
func bound(secret string) string {
	if secret == "" {
		return ""
	}
	return fmt.Sprintf(`,"kubernetes.io":{"secret":{"name":%q}}`, secret)
}

// grant answers a token request as an API server with Capstan's policy does. The caller holds the lock.
func (s *Server) grant(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Spec struct {
			BoundObjectRef struct{ Kind, Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		answer(w, http.StatusBadRequest, "not a TokenRequest")
		return
	}
	name := request.Spec.BoundObjectRef.Name
	switch {
	case name == "" && s.Epochs != nil:
		answer(w, http.StatusUnprocessableEntity, "the policy refuses a token that is bound to nothing")
		return
	case name != "" && !s.exists(name):
		answer(w, http.StatusNotFound, "no such Secret")
		return
	}
	encode(w, map[string]any{"status": map[string]any{"token": s.issue(24*time.Hour, name)}})
}

func (s *Server) exists(secret string) bool {
	for epoch := range s.Epochs {
		if secret == v1beta2.EpochSecret(testHost, epoch) {
			return true
		}
	}
	return false
}

// NextEpoch ends the claim and begins the next epoch of the host. Tokens of the previous epoch stay valid until
// EndEpochs.
func (s *Server) NextEpoch() {
	s.Change(func() {
		s.Host.Spec.Claim, s.Secret = nil, nil
		s.Host.Spec.Epoch++
	})
	time.Sleep(10 * time.Millisecond) // as with the real controller, the Secret comes a moment later
	s.Change(func() { s.Epochs[s.Host.Spec.Epoch] = true })
}

// EndEpochs revokes the tokens of all epochs before the present one.
func (s *Server) EndEpochs() {
	s.Change(func() {
		for epoch := range s.Epochs {
			if epoch == s.Host.Spec.Epoch {
				continue
			}
			delete(s.Epochs, epoch)
			ended := bound(v1beta2.EpochSecret(testHost, epoch))
			for token := range s.Tokens {
				if strings.Count(token, ".") == 2 && strings.Contains(payloadOf(token), ended) {
					delete(s.Tokens, token)
				}
			}
		}
	})
}
