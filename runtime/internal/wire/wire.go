// Package wire encodes and decodes requests and responses of hooks, with the checks that both sides share.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/runtime/internal/encode"
)

// MaxBody is the largest body of a request or a response in bytes. Cluster API documents the same bound (CL-21, RX-43).
const MaxBody = 20 << 20

// MaxMessage is the longest message of a response, in bytes, that is passed on. Messages end up in conditions, which
// hold 32 KiB.
const MaxMessage = 4 << 10

// ContentType of every body (RX-05).
const ContentType = "application/json"

// ErrTooLarge means that a body is larger than allowed.
var ErrTooLarge = errors.New("body too large")

// Read reads a whole body of at most limit bytes. For a larger one it returns ErrTooLarge after reading little more
// than the limit. hint is the announced length, negative if unknown; it is not trusted.
func Read(body io.Reader, limit, hint int64) ([]byte, error) {
	data, err := ReadInto(nil, body, limit, hint)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadInto is Read into the capacity of a slice. It returns the slice even with an error, so that it can be reused.
func ReadInto(data []byte, body io.Reader, limit, hint int64) ([]byte, error) {
	if hint > limit {
		return data, fmt.Errorf("%w: %d bytes are announced: at most %d are allowed", ErrTooLarge, hint, limit)
	}
	// A peer that announces much and sends nothing must not cost memory. The byte beyond the announced length detects the
	// end without growing.
	data = slices.Grow(data[:0], int(min(max(hint, 511), 64<<10))+1)
	for {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return data, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err
		case len(data) == cap(data):
			data = slices.Grow(data, len(data))
		}
	}
}

// Encode sets an object's apiVersion and kind and returns it as JSON.
func Encode(object runtime.Object, apiVersion, kind string) ([]byte, error) {
	return AppendEncoded(nil, object, apiVersion, kind)
}

// AppendEncoded is Encode, but appends to a slice.
func AppendEncoded(to []byte, object runtime.Object, apiVersion, kind string) ([]byte, error) {
	if meta, ok := object.GetObjectKind().(*metav1.TypeMeta); ok {
		meta.APIVersion, meta.Kind = apiVersion, kind
	} else {
		object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	}
	data, err := encode.Append(to, object)
	if err != nil {
		return to, fmt.Errorf("encoding a %s: %w", kind, err)
	}
	return data, nil
}

// Decode fills an empty object from the JSON of exactly one object. If apiVersion or kind are present, they must be
// the expected ones; published servers omit them. After an error the object may be partly filled and must be
// discarded.
func Decode(data []byte, object runtime.Object, apiVersion, kind string) error {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 {
		return fmt.Errorf("decoding a %s: the body is empty", kind)
	} else if trimmed[0] != '{' {
		return fmt.Errorf("decoding a %s: the body is not a JSON object", kind)
	}
	if err := json.Unmarshal(data, object); err != nil {
		return fmt.Errorf("decoding a %s: %w", kind, err)
	}
	gotVersion, gotKind := typeOf(object)
	if gotKind != "" && gotKind != kind {
		return fmt.Errorf("decoding a %s: the body is a %q", kind, Clip(gotKind, 64))
	}
	if gotVersion != "" && gotVersion != apiVersion {
		return fmt.Errorf("decoding a %s: its apiVersion is %q, expected %q", kind, Clip(gotVersion, 64), apiVersion)
	}
	return nil
}

// typeOf returns an object's apiVersion and kind unparsed. A GroupVersionKind would hide an invalid apiVersion.
func typeOf(object runtime.Object) (apiVersion, kind string) {
	objectKind := object.GetObjectKind()
	if meta, ok := objectKind.(*metav1.TypeMeta); ok {
		return meta.APIVersion, meta.Kind
	}
	return objectKind.GroupVersionKind().ToAPIVersionAndKind()
}

// Clip shortens a string to at most limit bytes without splitting a character.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	cut := max(limit-len(mark), 0)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // in the middle of a UTF-8 sequence
		cut--
	}
	return text[:cut] + mark
}
