package testapi

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case s.Failures > 0:
		s.Failures--
		s.Mu.Unlock()
		answer(w, http.StatusInternalServerError, "asked to fail")
		return
	case !s.Tokens[token]:
		if strings.Count(token, ".") == 2 && !strings.Contains(payloadOf(token), s.URL) {
			s.Strangers++
		}
		s.Mu.Unlock()
		answer(w, http.StatusUnauthorized, "the token is not known")
		return
	}
	ofHost := r.Method == http.MethodGet && r.URL.Path == hostsPath &&
		r.URL.Query().Get("fieldSelector") == "metadata.name=h1"
	if ofHost && !s.Silent && r.URL.Query().Get("watch") == "true" {
		s.Mu.Unlock()
		s.watch(w, r)
		return
	}
	defer s.Mu.Unlock()
	if ofHost && !r.URL.Query().Has("watch") {
		s.list(w)
		return
	}
	if s.Silent {
		answer(w, http.StatusServiceUnavailable, "asked to be silent")
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "PATCH " + hostsPath + "/h1/status":
		s.patch(w, r)
	case "GET " + secretPath:
		if s.Secret == nil {
			answer(w, http.StatusNotFound, "no such Secret")
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": s.Secret})
	case "GET " + offerPath:
		if s.Offer == nil {
			answer(w, http.StatusNotFound, "no such Secret")
			return
		}
		encode(w, map[string]any{"data": s.Offer})
	case "GET " + leasePath:
		_ = json.NewEncoder(w).Encode(s.Lease)
	case "PUT " + leasePath:
		body, _ := io.ReadAll(r.Body)
		s.Lease = map[string]any{}
		_ = json.Unmarshal(body, &s.Lease)
		s.Beats++
		s.bump()
		_ = json.NewEncoder(w).Encode(s.Lease)
	case "POST " + tokenPath:
		s.grant(w, r)
	default:
		s.Denied = append(s.Denied, r.Method+" "+r.URL.String())
		answer(w, http.StatusForbidden, "the Role does not allow that")
	}
}

// patch accepts the report, like server-side apply with the report's own field manager.
func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || query.Get("fieldManager") != "capstan-agent" ||
		query.Get("force") != "true" {
		s.Denied = append(s.Denied, "PATCH "+r.URL.String())
		answer(w, http.StatusUnsupportedMediaType, "not an apply")
		return
	}
	var applied v1beta2.CapstanHost
	if err := json.NewDecoder(r.Body).Decode(&applied); err != nil || applied.Name != testHost ||
		applied.APIVersion == "" {
		answer(w, http.StatusBadRequest, "not a host")
		return
	}
	s.Host.Status.Agent = applied.Status.Agent
	s.Reports++
	s.bump()
	_ = json.NewEncoder(w).Encode(&s.Host)
}

// watch streams the host: its present state, then each change.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	last, kind := "", "ADDED"
	for {
		s.Mu.Lock()
		host, changed, deleted := s.Host.DeepCopy(), s.changed, s.Deleted
		s.Mu.Unlock()
		if deleted && kind == "ADDED" {
			last = host.ResourceVersion // a watch of a missing host shows nothing
		}
		if host.ResourceVersion != last {
			if deleted {
				kind = "DELETED"
			}
			data, _ := json.Marshal(map[string]any{"type": kind, "object": host})
			if _, err := w.Write(append(data, '\n')); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			last, kind = host.ResourceVersion, "MODIFIED"
			if deleted {
				kind = "ADDED"
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func encode(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// payloadOf returns the payload of a token.
func payloadOf(token string) string {
	data, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	return string(data)
}

func answer(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Message: message, Code: int32(code)})
}

// list answers a list request for the host.
func (s *Server) list(w http.ResponseWriter) {
	s.looks++
	close(s.looked)
	s.looked = make(chan struct{})
	switch {
	case s.Silent:
		answer(w, http.StatusServiceUnavailable, "asked to be silent")
	case s.Odd:
		_, _ = w.Write([]byte(`{"kind":"Welcome"}`))
	default:
		list := v1beta2.CapstanHostList{}
		list.Kind, list.ResourceVersion = "CapstanHostList", s.Host.ResourceVersion
		if !s.Deleted {
			list.Items = append(list.Items, *s.Host.DeepCopy())
		}
		encode(w, &list)
	}
}
