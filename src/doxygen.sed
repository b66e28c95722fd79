# Comments of the headers become those of Doxygen: above a declaration, or behind a field on its line.
s|^\( *\)/\* ----.*|\1/* a part of the header */|
s|^\( *\)/\*\([^*]\)|\1/**\2|
s|^\( *\)/\*$|\1/**|
s|^\( *[^ /].*[^ ]  *\)/\* |\1/**< |
/^ \*/s|<\([a-z][a-z ]*\)>|\&lt;\1\&gt;|g
