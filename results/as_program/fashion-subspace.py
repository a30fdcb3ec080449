# The network of fashion-subspace.cbound as a program, to be counted: raw deflate of what follows these comments. f(s, x): s is a
# fraction whose binary digits are the payload, the 650 integers by a fixed bell curve; x are the stored images; the result has
# the sums of the logits over the image and its mirror image.
import torch as T,numpy as N,hashlib as H
F=T.nn.functional
S=lambda t,n:N.random.Philox(key=N.frombuffer(H.sha256(b'codebound/1/'+t).digest(),'u8',2)).random_raw(n)
n=lambda v:F.group_norm(v,1)
h=lambda v,w,*z:F.max_pool2d(n(F.conv2d(v,w.view(z),padding=1)).relu(),2)
def f(s,x):
 q=[];k=N.r_[:40]-20;c=[1+int(8e4*2.**(-i*i/18))for i in k];M=sum(c)
 for _ in range(650):
  s*=M;i=0
  while s>=c[i]:s-=c[i];i+=1
  s/=c[i];q+=[k[i]]
 w=S(b'hash',116352);a,b,c=T.tensor((N.bitwise_count(S(b'start',29088))/4-8)*(N.r_[:29088]<23328)+(N.array(q)[(w>>32)*650>>32]*(.5-w%2)).reshape(-1,4).sum(1)).split([4896,18432,5760]);x=x.double()/255;o=0
 for v in x,x.flip(3):
  m=[]
  for z in 4,7:
   k=N.r_[-z:z+1]
   for i in range(8):w=(k+1j*k[:,None])/1j**(i/4);g=N.exp(-(w.real**2+abs(w)**2)/10.24/(z//3)**2);w=g*1j**(w.real/(z//3));w-=g*w.sum()/g.sum();m+=[F.conv2d(v+0j,T.tensor((4096*w/(abs(w)**2).sum()**.5).round()/2048)[None,None],padding=z).abs()]
  o+=h(h(n(F.avg_pool2d(T.cat(m+[v],1),2)),a/8,32,17,3,3),b/16,64,32,3,3).flatten(1)@c.view(10,-1).T
 return o
