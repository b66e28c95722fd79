/* placeholder */ typedef int gconv_placeholder;
