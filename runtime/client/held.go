package client

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// maxHeld bounds how many blocking answers are remembered.
const maxHeld = 4096

// heldAnswers remembers answers that block. Cluster API's reconcilers ask again only when the returned wait is over,
// whatever has changed in the meantime. So they get a short wait, and as long as nothing has changed they get the same
// answer without a call. The extensions are called again when the shortest wait that they have named is over (CL-12),
// or as soon as the request, the object or an ExtensionConfig has changed.
type heldAnswers struct {
	recheck time.Duration // the longest wait that a caller gets at a time

	mu   sync.Mutex
	kept map[heldKey]held
}

// again returns the held answer to this question with the wait for the caller, or nil if none is held.
func (a *heldAnswers) again(q *question) runtimehooksv1.ResponseObject {
	now := time.Now()
	if !q.hook.CanWait || !a.has(heldKeyOf(q), now) {
		return nil
	}
	response, left := a.get(heldKeyOf(q), fingerprintOf(q), now)
	if response == nil {
		return nil
	}
	again := response.DeepCopyObject().(runtimehooksv1.RetryResponseObject)
	again.SetRetryAfterSeconds(a.waitOf(left))
	return again
}

// hold remembers an answer if it blocks, and shortens the wait in it.
func (a *heldAnswers) hold(q *question, joined runtimehooksv1.ResponseObject) {
	if !q.hook.CanWait {
		return
	}
	retry, ok := joined.(runtimehooksv1.RetryResponseObject)
	if !ok || retry.GetRetryAfterSeconds() == 0 {
		a.forget(q)
		return
	}
	now, wait := time.Now(), time.Duration(retry.GetRetryAfterSeconds())*time.Second
	a.put(heldKeyOf(q), held{
		fingerprint: fingerprintOf(q), until: now.Add(wait),
		response: joined.DeepCopyObject().(runtimehooksv1.ResponseObject),
	}, now)
	retry.SetRetryAfterSeconds(a.waitOf(wait))
}

// forget drops the answer to a question.
func (a *heldAnswers) forget(q *question) {
	key := heldKeyOf(q)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, key)
}

// waitOf returns the wait for the caller in seconds, rounded up: zero would mean that nothing blocks.
func (a *heldAnswers) waitOf(left time.Duration) int32 {
	return wholeSeconds(min(left+time.Second-1, a.recheck))
}

// heldKey identifies what reconcilers ask about: a hook and an object.
type heldKey struct {
	hook      hook.ID
	kind      string
	namespace string
	name      string
	uid       types.UID
}

type held struct {
	fingerprint [sha256.Size]byte
	until       time.Time
	response    runtimehooksv1.ResponseObject
}

func heldKeyOf(q *question) heldKey {
	o := objectOf(q.object)
	return heldKey{hook: q.hook.ID, kind: o.Kind, namespace: o.Namespace, name: o.Name, uid: q.object.GetUID()}
}

// has reports whether an answer is held for a key. Only then is it worth computing a fingerprint. The check is cheap.
func (a *heldAnswers) has(key heldKey, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok := a.kept[key]
	if ok && !now.Before(h.until) {
		delete(a.kept, key)
		return false
	}
	return ok
}

// get returns the answer to an equal question and the remaining wait. The response must not be changed.
func (a *heldAnswers) get(
	key heldKey, fingerprint [sha256.Size]byte, now time.Time,
) (response runtimehooksv1.ResponseObject, left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok := a.kept[key]
	if !ok || h.fingerprint != fingerprint || !now.Before(h.until) {
		return nil, 0
	}
	return h.response, h.until.Sub(now)
}

func (a *heldAnswers) put(key heldKey, h held, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil {
		a.kept = map[heldKey]held{}
	}
	if _, ok := a.kept[key]; !ok && len(a.kept) >= maxHeld {
		for other, o := range a.kept { // drop the expired ones; if there are none, drop any one
			if !now.Before(o.until) {
				delete(a.kept, other)
			}
		}
		for other := range a.kept {
			if len(a.kept) < maxHeld {
				break
			}
			delete(a.kept, other)
		}
	}
	a.kept[key] = h
}

// fingerprintOf hashes a question: the handlers, their settings, and the request without resourceVersions. A
// resourceVersion changes with every update of the object's status, which is not in the request.
func fingerprintOf(q *question) (sum [sha256.Size]byte) {
	digest := sha256.New()
	var last []byte
	for i := range q.asks {
		one := &q.asks[i]
		digest.Write([]byte(one.handler.Name))
		digest.Write([]byte{0})
		digest.Write([]byte(one.handler.Extension.Fingerprint))
		if len(last) > 0 && len(one.body) == len(last) && &one.body[0] == &last[0] {
			continue // the same bytes, shared by many handlers
		}
		last = one.body
		writeWithoutResourceVersions(digest, one.body)
	}
	digest.Sum(sum[:0])
	return sum
}

var resourceVersionField = []byte(`"resourceVersion":"`)

// writeWithoutResourceVersions skips the values of all fields of that name. It can't match inside a string value,
// because quotes are escaped there.
func writeWithoutResourceVersions(digest hash.Hash, body []byte) {
	for {
		before, after, found := bytes.Cut(body, resourceVersionField)
		digest.Write(before)
		if !found {
			return
		}
		end := bytes.IndexByte(after, '"') // resourceVersions contain no quotes
		if end < 0 {
			digest.Write(after)
			return
		}
		body = after[end:]
	}
}
