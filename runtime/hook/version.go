package hook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Conversion converts between the newest version of a hook and the version that an extension serves.
type Conversion struct {
	newest, older *Descriptor
	down          func(newest, older runtime.Object) error
	up            func(older, newest runtime.Object) error
}

// Serves registers an older version of a hook in addition to its newest version. Callers work with the newest (RS-17).
// down fills the older request from the newest and may lose information (RS-03); up fills the newest response from the
// older and sets new fields to their defaults (RS-04). Both get an empty target.
func Serves[NReq, NResp, OReq, OResp any](newest Hook[NReq, NResp], older Hook[OReq, OResp],
	down func(newest *NReq, older *OReq) error, up func(older *OResp, newest *NResp) error,
) Registration {
	return served{older: older, link: &Conversion{
		newest: newest.descriptor,
		older:  older.descriptor,
		down: func(from, to runtime.Object) error {
			source, ok := any(from).(*NReq)
			if !ok {
				return fmt.Errorf("a request of hook %s can't be a %T", newest.descriptor.ID, from)
			}
			return down(source, any(to).(*OReq))
		},
		up: func(from, to runtime.Object) error {
			return up(any(from).(*OResp), any(to).(*NResp))
		},
	}, complete: down != nil && up != nil}
}

type served struct {
	older    Registration
	link     *Conversion
	complete bool
}

func (s served) register(b *builder) error {
	if s.link.newest == nil || s.link.older == nil {
		return fmt.Errorf("hook.Serves got a hook without a name: make it with hook.Define or hook.Of")
	}
	newest, older := s.link.newest.ID, s.link.older.ID
	if newest.Family() != older.Family() || newest.Version == older.Version {
		return fmt.Errorf("%s can't be an older version of %s: conversion is only between versions of one hook (RS-15)",
			older, newest)
	}
	if !s.complete {
		return fmt.Errorf("hook %s is served as %s without both conversions: pass down and up", newest, older)
	}
	if err := s.older.register(b); err != nil {
		return err
	}
	b.links = append(b.links, s.link)
	b.catalog.older[older] = s.link
	return nil
}

// Conversion returns the conversion between a hook and the version that an extension serves. It is nil without an
// error if both are the same.
func (c *Catalog) Conversion(hook *Descriptor, served ID) (*Conversion, error) {
	if hook.ID == served {
		return nil, nil
	}
	link, ok := c.older[served]
	if !ok || link.newest != hook {
		return nil, fmt.Errorf("hook %s can't be called as %s: the catalog has no conversion between them", hook.ID, served)
	}
	return link, nil
}

// Served returns the hook in the version that the extension serves.
func (v *Conversion) Served() *Descriptor { return v.older }

// Down returns the request in the version that the extension serves.
func (v *Conversion) Down(request runtime.Object) (runtime.Object, error) {
	older := v.older.NewRequest()
	if err := v.down(request, older); err != nil {
		return nil, fmt.Errorf("converting the request of hook %s down to %s: %w", v.newest.ID, v.older.ID, err)
	}
	return older, nil
}

// Up returns the response in the newest version.
func (v *Conversion) Up(response runtime.Object) (runtimehooksv1.ResponseObject, error) {
	newest := v.newest.NewResponse()
	if err := v.up(response, newest); err != nil {
		return nil, fmt.Errorf("converting the response of hook %s up to %s: %w", v.older.ID, v.newest.ID, err)
	}
	return newest, nil
}
