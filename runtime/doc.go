// Package runtime is the root of the Runtime SDK: everything that is needed to call and to serve the runtime hooks of
// Cluster API, for everybody. The module imports nothing else of Capstan.
//
// A tour, in the order of a call:
//
//   - [github.com/capstan-dev/capstan/runtime/hook]: what a hook is. A hook is a typed value, a catalog holds the hooks that
//     a process knows, [hook.ClusterAPI] is the catalog of Cluster API's own.
//   - [github.com/capstan-dev/capstan/runtime/registry]: which handlers the ExtensionConfigs of a management cluster have
//     brought.
//   - [github.com/capstan-dev/capstan/runtime/client]: calls them. It implements Cluster API's public client interface, so its
//     reconcilers use it unchanged.
//   - [github.com/capstan-dev/capstan/runtime/server]: answers. Typed functions in, a plain http.Handler out.
//   - [github.com/capstan-dev/capstan/runtime/record]: a bounded journal of calls, for people.
//
// Rules that the code refers to by id (RX, RC, RS, CL, LH) are those of the Runtime SDK's contract.
package runtime
