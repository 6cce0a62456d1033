// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/types"
	"maps"
	"slices"
)

// apiCheck finds the types that users of the API packages see but cannot name: types of this module
// outside the API packages for which no API package has an alias.
type apiCheck struct {
	ours     func(path string) bool // the package is of this module
	isAPI    func(path string) bool
	exported map[*types.TypeName]bool // types of other packages with an alias in an API package
	seen     map[types.Type]bool
	where    string // the object under examination
	found    map[string]bool
}

// hiddenTypes returns a line for each exported object of the packages that mentions a hidden type.
func hiddenTypes(packages []*types.Package, ours, isAPI func(string) bool) []string {
	c := &apiCheck{
		ours: ours, isAPI: isAPI,
		exported: map[*types.TypeName]bool{}, seen: map[types.Type]bool{}, found: map[string]bool{},
	}
	for _, p := range packages {
		for _, o := range exportedObjects(p) {
			if tn, ok := o.(*types.TypeName); ok && tn.IsAlias() {
				if n, ok := types.Unalias(tn.Type()).(*types.Named); ok {
					c.exported[n.Obj()] = true
				}
			}
		}
	}
	for _, p := range packages {
		for _, o := range exportedObjects(p) {
			c.object(p, o)
		}
	}
	return slices.Sorted(maps.Keys(c.found))
}

// exportedObjects returns the exported objects of a package by name.
func exportedObjects(p *types.Package) []types.Object {
	var objects []types.Object
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			objects = append(objects, o)
		}
	}
	return objects
}

// object examines one exported object of an API package.
func (c *apiCheck) object(p *types.Package, o types.Object) {
	c.where = p.Path() + "." + o.Name()
	tn, ok := o.(*types.TypeName)
	if !ok {
		c.mention(o.Type())
		return
	}
	if n, ok := types.Unalias(tn.Type()).(*types.Named); ok {
		c.declaration(n)
		return
	}
	c.mention(types.Unalias(tn.Type()))
}

// declaration examines what a user sees of a named type: type parameters, fields, elements and
// methods, also those that an embedded field has.
func (c *apiCheck) declaration(n *types.Named) {
	n = n.Origin()
	if c.seen[n] {
		return
	}
	c.seen[n] = true
	where := c.where
	defer func() { c.where = where }()
	name := n.Obj().Pkg().Path() + "." + n.Obj().Name()
	c.where = name
	for i := range n.TypeParams().Len() {
		c.mention(n.TypeParams().At(i).Constraint())
	}
	c.mention(n.Underlying())
	set := types.NewMethodSet(types.NewPointer(n))
	if types.IsInterface(n) {
		set = types.NewMethodSet(n)
	}
	for i := range set.Len() {
		if m := set.At(i).Obj(); m.Exported() {
			c.where = name + "." + m.Name()
			c.mention(m.Type())
		}
	}
}

// mention examines a type that is part of a signature.
func (c *apiCheck) mention(t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		c.named(t)
	case *types.Alias:
		c.mention(types.Unalias(t))
	case *types.Pointer:
		c.mention(t.Elem())
	case *types.Slice:
		c.mention(t.Elem())
	case *types.Array:
		c.mention(t.Elem())
	case *types.Chan:
		c.mention(t.Elem())
	case *types.Map:
		c.mention(t.Key())
		c.mention(t.Elem())
	case *types.Signature:
		c.signature(t)
	case *types.Struct:
		c.fields(t)
	case *types.Interface:
		for i := range t.NumEmbeddeds() {
			c.mention(t.EmbeddedType(i))
		}
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				c.mention(m.Type())
			}
		}
	case *types.Union:
		for i := range t.Len() {
			c.mention(t.Term(i).Type())
		}
	}
}

// fields examines the fields that a user sees, also those that an embedded field of an unexported type
// has.
func (c *apiCheck) fields(t *types.Struct) {
	for f := range t.Fields() {
		if f.Exported() {
			c.mention(f.Type())
			continue
		}
		embedded := types.Unalias(f.Type())
		if p, ok := embedded.(*types.Pointer); ok {
			embedded = types.Unalias(p.Elem())
		}
		inner, ok := embedded.Underlying().(*types.Struct)
		if f.Embedded() && ok && !c.seen[inner] {
			c.seen[inner] = true
			c.fields(inner)
		}
	}
}

// signature examines type parameters, parameters and results of a function.
func (c *apiCheck) signature(s *types.Signature) {
	for i := range s.TypeParams().Len() {
		c.mention(s.TypeParams().At(i).Constraint())
	}
	for v := range s.Params().Variables() {
		c.mention(v.Type())
	}
	for v := range s.Results().Variables() {
		c.mention(v.Type())
	}
}

// named examines the mention of a named type, and records it if it is hidden.
func (c *apiCheck) named(n *types.Named) {
	for i := range n.TypeArgs().Len() {
		c.mention(n.TypeArgs().At(i))
	}
	o := n.Obj()
	if o.Pkg() == nil || !c.ours(o.Pkg().Path()) {
		return
	}
	if !c.exported[o] && (!c.isAPI(o.Pkg().Path())) {
		c.found[fmt.Sprintf("%s mentions %s.%s", c.where, o.Pkg().Path(), o.Name())] = true
		return
	}
	if !o.Exported() {
		c.declaration(n) // its methods and fields are visible, its name is not
	}
}
