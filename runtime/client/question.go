package client

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// question is what the caller asks some handlers: a hook for an object, with a request. Each handler's result is in an
// outcome. Make it with [Client.newQuestion], and release it when all calls have ended.
type question struct {
	hook     *hook.Descriptor // in the version that the caller uses
	object   ctrlclient.Object
	requests *requests
	asks     []ask
}

// ask is the call to one handler. It is immutable.
type ask struct {
	handler    *registry.Handler
	conversion *hook.Conversion // nil if the handler serves the version of the question
	endpoint   *endpoint
	body       []byte // the request with the settings for this handler, in the version that it serves
}

// newQuestion makes a question without handlers. It fails if the request does not belong to the hook.
func (c *Client) newQuestion(
	descriptor *hook.Descriptor, object ctrlclient.Object, request runtimehooksv1.RequestObject,
) (*question, error) {
	requests, err := newRequests(c.options.Catalog, descriptor, request)
	if err != nil {
		return nil, err
	}
	return &question{hook: descriptor, object: object, requests: requests}, nil
}

// address adds handlers to call. It takes all the steps that can fail before a handler is called; its errors mean
// misconfiguration.
func (c *Client) address(q *question, handlers ...*registry.Handler) error {
	q.asks = make([]ask, len(handlers))
	for i, h := range handlers {
		conversion, err := c.options.Catalog.Conversion(q.hook, h.Hook)
		if err != nil {
			return fmt.Errorf("handler %q: %w", h.Name, err)
		}
		body, err := q.requests.body(h, conversion)
		if err != nil {
			return fmt.Errorf("handler %q: %w", h.Name, err)
		}
		q.asks[i] = ask{handler: h, conversion: conversion, endpoint: c.endpoints.of(h.Extension), body: body}
	}
	return nil
}

// of returns the question for only some of its handlers, given by their indexes.
func (q *question) of(handlers []int) *question {
	part := &question{hook: q.hook, object: q.object, requests: q.requests, asks: make([]ask, len(handlers))}
	for to, from := range handlers {
		part.asks[to] = q.asks[from]
	}
	return part
}

// objectOf identifies an object. In typed objects, the kind is seldom set, but it is the name of their Go type.
func objectOf(object ctrlclient.Object) record.Object {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if _, ok := object.(*clusterv1.Cluster); ok {
		kind = "Cluster" // nearly all of them are Clusters
	} else if kind == "" {
		goType := fmt.Sprintf("%T", object)
		kind = goType[strings.LastIndexByte(goType, '.')+1:]
	}
	return record.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// release gives the request's buffers back. The question must not be used afterwards.
func (q *question) release() { q.requests.release() }

// served returns the hook in the version that the handler serves.
func (a *ask) served(q *question) *hook.Descriptor {
	if a.conversion != nil {
		return a.conversion.Served()
	}
	return q.hook
}
